"""What a machine does in a second: measured, by data sheets or guessed, and how long work takes there."""
