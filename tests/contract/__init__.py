"""The contract: what every backend and every store must do, as tests that a third party can run.

One specification, run over every store, both event loops and every kind of flow. A test speaks the
public API alone: it asks a `Subject` (subject.py) for a runtime on a fresh store, and a `Kind`
(kinds.py) for the flows that it needs, written as that kind writes them (graphs.py). To hold another
store against it, give its URL, where `{folder}` is an empty folder of each test's own:

    pytest tests/contract --store 'mine:///{folder}/flows'

What a backend and its store declare that they cannot do (`Capabilities`) is not asked of them.
"""
