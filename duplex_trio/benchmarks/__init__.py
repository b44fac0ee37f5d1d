"""Commands that measure, in ratios and counts."""
