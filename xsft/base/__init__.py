"""Words that everything shares: errors, problems, names, amounts, secrets and the display of progress."""
