"""What policies are called in figures and tables, and their colours."""

LABELS = {
    "proportional": "proportional",
    "lru": "LRU",
    "mru": "MRU",
    "2q": "2Q",
    "lfu": "LFU",
    "os": "the system's cache",
}
COLOURS = {
    "proportional": "#2b8a5a",
    "mru": "#d1605e",
    "lru": "#9ab8d6",
    "2q": "#4e79a7",
    "lfu": "#8d6aa9",
    "os": "#8a8a8a",
}
