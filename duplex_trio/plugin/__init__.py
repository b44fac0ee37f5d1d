"""What a model brings, as ABCs.

`plugin` is the contract itself, `results` the typed values a plugin turns stage outputs into, `capabilities`
what it can do, `requests` what it is told about a request, `pipeline` how a model's stages are declared and
built.
"""
