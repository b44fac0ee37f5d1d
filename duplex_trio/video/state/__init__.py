"""The account of a video, as plain classes: no loop, no clock, no thread; times are arguments."""
