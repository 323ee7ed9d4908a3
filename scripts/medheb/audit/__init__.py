"""Record and verify digests of everything a run made. Reads all rooms below it, writes only the audit folder.

It trusts neither the workflow engine nor timestamps nor the inventories: every file is hashed here.
"""
