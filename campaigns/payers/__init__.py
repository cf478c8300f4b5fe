"""What the live server is billed by each tariff, beside what `mnemosyne evaluate` says of the same session."""
