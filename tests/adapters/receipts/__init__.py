"""What holds of teams: the conformance cases, and what the invariants forbid."""
