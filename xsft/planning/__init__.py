"""Facts, intent, plan: everything that is read before a plan, and the planner. The Python API begins here."""
