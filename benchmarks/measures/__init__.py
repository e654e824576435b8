"""The measures behind `flowctl bench` and the benchmarks: one module each, named for what it times."""
