"""flowctl, as people and scripts use it."""
