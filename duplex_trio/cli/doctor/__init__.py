"""`duplex-trio doctor`: what works on this machine, and what to do about the rest.

`facts` looks at the machine and `checks` judges what was seen; `deployment`, `sound`, `server` and `turn` try
things out; `report` shows it.
"""
