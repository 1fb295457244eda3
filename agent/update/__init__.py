"""From a head to an active scope: fetched, verified, validated, activated; and what is tried again when."""
