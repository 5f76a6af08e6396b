"""What every HTML page of ours is made of: one file that needs nothing else and asks no network.

Pages are well-formed XML as well, so that any parser can check them.
"""
