"""What nox calls: ``python -m extensions.commands.<name>``."""
