"""Functions that a language model calls by writing: how it is told of them, and how a call is found in its
text.

Knows nothing of sessions and of engines. `wording` tells the model, `parser` finds calls while the text is
being written, `schemas` holds their arguments to what was declared, and `guides` are grammars that an engine
can hold the model to.
"""
