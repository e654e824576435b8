"""Teams: a coordinator and members that work on tasks, turn by turn.

`definition.py` is what a user writes, `turn.py` what its bodies have in hand, `orders.py` what can be asked
of a team, `values.py` what a reader gets, `rows.py` what a store keeps. The rules are in `quiesce.rules`:
`turns.py`, `scheduling.py`, `orders.py`, `continuing.py`. Nothing is imported here: the store port and the
rules need parts of this package that come before the others.
"""
