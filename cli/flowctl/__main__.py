"""`python -m flowctl` is `flowctl`."""

from flowctl.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
