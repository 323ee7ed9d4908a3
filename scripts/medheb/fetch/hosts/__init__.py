"""One client a kind of host: ``CLIENT`` of the module with the kind's name (see ``fetch/remote.py``)."""
