"""`python -m perdure`: the command, for whoever has no script of that name on the path."""

from perdure.cli import main

if __name__ == "__main__":
    main()
