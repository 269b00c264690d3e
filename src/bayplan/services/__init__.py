"""Long-running parts of bayplan: what talks to an API server and stays."""
