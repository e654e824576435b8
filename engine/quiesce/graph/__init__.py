"""Graphs: nodes, one transition each, and the pure walk along them."""
