"""The local API over a folder of plain files, for whoever writes a service: no coordinator, no keys."""
