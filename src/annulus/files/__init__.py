"""What stages hand to one another: files that are either whole or untouched."""
