"""Language servers: what the project's own checker says of a file after an edit."""
