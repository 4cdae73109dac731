"""What maintainers call by hand."""
