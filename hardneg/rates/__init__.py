"""What a device does in a second: measured, by its data sheet, or guessed, and which of these it is."""
