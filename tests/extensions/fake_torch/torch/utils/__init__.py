"""What a measurement imports, and no test here calls."""
