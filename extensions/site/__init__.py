"""What Sphinx is taught: one module, one feature."""
