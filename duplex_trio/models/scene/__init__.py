"""The scene renderer: moving landscapes that follow what a prompt says, on one core and without a trained generator.

It is a renderer. A sentence encoder reads the prompt, a linear readout says how much of each of some fifty things the
prompt speaks of, and numpy paints these in layers.
"""
