"""The language of texts by their letters and commonest words."""

import pytest

from hardneg.records.text import language_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The cat sat on the mat, and that is for the best of us.", "en"),
        ("def add(self, other): return Vector(self.x + other.x)", "en"),
        ("Der Hund ist nicht von hier, und das Haus gehört der Katze.", "de"),
        ("Le chat est dans la maison des chiens et une souris.", "fr"),
        ("El gato que vive en la casa de los perros, con una niña.", "es"),
        ("O gato que mora em uma casa não gosta do cachorro.", "pt"),
        ("Het is een huis van de man en dat is niet voor mij.", "nl"),
        ("Kissa on talossa, ja se oli myös koira.", "fi"),
        ("ธรรมศาสตร์เป็นมหาวิทยาลัยในประเทศไทย", "th"),
        ("梅雨は、北海道と小笠原諸島を除く日本に見られる。", "ja"),
        ("中国是一个国家，位于亚洲。", "zh"),
        ("한국어 텍스트입니다", "ko"),
        ("Это обычный русский текст", "ru"),
        ("Це звичайний український текст, її мова", "uk"),
        ("هذا نص عربي", "ar"),
        ("این یک متن فارسی است که گفته شد", "fa"),
        ("यह हिन्दी है", "hi"),
        ("Γειά σου κόσμε", "en"),  # Lucene has no analyzer for it here
        ("", "en"),
    ],
)
def test_the_language_that_most_is_in(text, code):
    assert language_of([text]) == code
    assert language_of([text, text, "OpenAPI v2"]) == code
