"""What an API server would refuse in an object that a user submits."""
