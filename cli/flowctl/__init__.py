"""flowctl: the verbs of quiesce on the command line.

`main.py` parses and maps errors to exit codes, `wiring.py` alone opens stores and builds a `Runtime`,
`commands/` has one command a file. No rule of the engine is repeated here.
"""
