"""Names and words that generated text consists of."""

from __future__ import annotations

from typing import Final

FIRST_NAMES: Final = (
    "Amara", "Anders", "Ayumi", "Bilal", "Carla", "Chidi", "Daniela", "Elif", "Emil", "Fatima", "Felix", "Giulia",
    "Hana", "Hugo", "Ines", "Ivan", "Jamal", "Jana", "Jonas", "Kenji", "Lars", "Leila", "Lucia", "Malik", "Marta",
    "Mei", "Mila", "Nadia", "Noah", "Olga", "Omar", "Priya", "Rafael", "Rosa", "Samir", "Sofia", "Tariq", "Theo",
    "Yusuf", "Zoe",
)  # fmt: skip

LAST_NAMES: Final = (
    "Abe", "Ahmed", "Andersen", "Bauer", "Becker", "Costa", "Diallo", "Dubois", "Eriksen", "Fischer", "Garcia",
    "Haddad", "Hansen", "Ivanova", "Jensen", "Kaya", "Kim", "Kowalski", "Kumar", "Larsen", "Lopez", "Mbeki", "Meyer",
    "Moreau", "Nakamura", "Nowak", "Okafor", "Patel", "Pereira", "Rossi", "Sato", "Schmidt", "Silva", "Singh",
    "Suzuki", "Tanaka", "Virtanen", "Weber", "Yilmaz", "Zhang",
)  # fmt: skip

WORDS: Final = (
    "amber", "anchor", "apple", "arrow", "autumn", "basket", "beacon", "birch", "bridge", "bright", "candle", "canyon",
    "cedar", "cloud", "clover", "copper", "coral", "cotton", "crystal", "desert", "early", "ember", "engine", "fabric",
    "falcon", "feather", "field", "forest", "garden", "gentle", "glass", "golden", "granite", "harbour", "hazel",
    "hollow", "island", "ivory", "journey", "kettle", "lantern", "lemon", "linen", "little", "maple", "marble",
    "meadow", "mirror", "morning", "narrow", "north", "ocean", "olive", "orange", "paper", "pebble", "pepper", "quiet",
    "rapid", "river", "saddle", "sailor", "silent", "silver", "simple", "spring", "stone", "summer", "thunder",
    "timber", "travel", "valley", "velvet", "violet", "walnut", "willow", "window", "winter", "yellow", "zephyr",
)  # fmt: skip
