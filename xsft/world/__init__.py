"""What is around runs: doctor, places, Secrets, clusters."""
