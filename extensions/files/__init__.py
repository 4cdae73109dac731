"""What stands in files: read and written without Sphinx, without torch."""
