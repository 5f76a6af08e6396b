"""Tasks that end in success or failure: how often learned policies succeed in eight worlds."""
