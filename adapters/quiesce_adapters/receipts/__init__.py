"""Teams: receipts in the store. `backend.py` is the mechanism, `driver.py` drives one run."""
