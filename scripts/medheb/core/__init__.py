"""Ground floor: errors, atomic files, digests, statuses, logging, folder layout. Imports no other room."""
