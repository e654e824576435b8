"""One command of flowctl a file; `flowctl.main.COMMANDS` lists them, and loads one when it is called."""
