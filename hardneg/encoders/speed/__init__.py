"""How a network computes fast: attention, packing, compiled or in other libraries, in passes that fit."""
