"""Entry point of `rag-ingest` and `python -m ingest`."""

from ingest.cli import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
