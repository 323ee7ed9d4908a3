"""Task JSONs in the published record format, built from inventories by written rules."""
