"""How agents are suspended: greenlet continuations. `continuation.py` first, then `driver.py`."""
