"""The venues' published rules, a file for each kind of stream.

Never: imported by anything but `reconstruct.py`.
"""
