"""``python -m twoway`` is the command line."""

from twoway.cli import main

if __name__ == "__main__":
    main()
