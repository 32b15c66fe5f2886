"""What runs do and why: status, why, logs, wait, cancel, compare, receipts."""
