"""Cities and countries, which translations must not lose or change: "Wien" is "Vienna" and "Vienne".

Models of everyday sentences know few of them. So they read another place in place of one that they have lost, with the
same articles, and the answer gets the name in its place.
"""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

_LANGUAGES = ("en", "de", "fr")
# Cities, and countries without an article: English, German, French; once if they are spelt alike.
# First those that all general translators know.
_CITIES = """
Berlin; Paris; London, London, Londres; Boston; Rome, Rom, Rome; Tokyo, Tokio, Tokyo; Madrid; Chicago;
Aachen, Aachen, Aix-la-Chapelle; Adelaide; Algiers, Algier, Alger; Amsterdam; Antwerp, Antwerpen, Anvers;
Athens, Athen, Athènes; Augsburg, Augsburg, Augsbourg; Baghdad, Bagdad, Bagdad; Baltimore; Bangkok;
Barcelona, Barcelona, Barcelone; Basel, Basel, Bâle; Beijing|Peking, Peking, Pékin; Beirut, Beirut, Beyrouth;
Belgrade, Belgrad, Belgrade; Bern|Berne, Bern, Berne; Bielefeld; Birmingham; Bochum; Bologna, Bologna, Bologne; Bonn;
Bordeaux; Bratislava; Bremen, Bremen, Brême; Brisbane; Bristol; Bruges, Brügge, Bruges; Brussels, Brüssel, Bruxelles;
Bucharest, Bukarest, Bucarest; Budapest; Buenos Aires; Casablanca; Chemnitz; Cologne, Köln, Cologne;
Copenhagen, Kopenhagen, Copenhague; Cuba, Kuba, Cuba; Cyprus, Zypern, Chypre; Dakar; Dallas; Damascus, Damaskus, Damas;
Darmstadt; Delhi; Denver; Detroit, Detroit, Détroit|Detroit; Dijon; Dortmund; Dresden, Dresden, Dresde;
Dubai, Dubai, Dubaï; Dublin; Duisburg, Duisburg, Duisbourg; Düsseldorf; Edinburgh, Edinburgh, Édimbourg; Erfurt;
Florence, Florenz, Florence; Frankfurt, Frankfurt, Francfort; Freiburg, Freiburg, Fribourg; Geneva, Genf, Genève;
Genoa, Genua, Gênes; Ghent, Gent, Gand; Glasgow; Gothenburg, Göteborg, Göteborg; Graz; Grenoble; Göttingen;
Hamburg, Hamburg, Hambourg; Hanover|Hannover, Hannover, Hanovre; Heidelberg; Helsinki; Hiroshima;
Hong Kong, Hongkong, Hong Kong; Houston; Innsbruck; Israel, Israel, Israël; Istanbul; Jakarta;
Jerusalem, Jerusalem, Jérusalem; Johannesburg; Karlsruhe; Kassel; Krakow|Cracow, Krakau, Cracovie;
Kyiv|Kiev, Kiew|Kyjiw, Kiev|Kyiv; Kyoto; Lagos; Las Vegas; Lausanne; Leeds; Leipzig; Lille; Lima; Linz;
Lisbon, Lissabon, Lisbonne; Liverpool; Los Angeles; Lucerne, Luzern, Lucerne; Lyon|Lyons, Lyon, Lyon; Lübeck;
Magdeburg, Magdeburg, Magdebourg; Mainz, Mainz, Mayence; Malta, Malta, Malte; Manchester; Mannheim;
Marseille|Marseilles, Marseille, Marseille; Melbourne; Miami; Milan, Mailand, Milan; Minneapolis; Minsk; Montpellier;
Montreal, Montreal, Montréal; Moscow, Moskau, Moscou; Mumbai; Munich, München, Munich; Münster; Nairobi; Nantes;
Naples, Neapel, Naples; New York; Nuremberg, Nürnberg, Nuremberg; Osaka; Oslo; Oxford; Palermo, Palermo, Palerme;
Philadelphia, Philadelphia, Philadelphie; Potsdam; Prague, Prag, Prague; Regensburg, Regensburg, Ratisbonne; Rennes;
Reykjavik; Riga; Rio de Janeiro; Rostock; Rotterdam; Saarbrücken, Saarbrücken, Sarrebruck;
Salzburg, Salzburg, Salzbourg; San Francisco; Seattle; Seoul, Seoul, Séoul; Seville, Sevilla, Séville; Shanghai;
Sheffield; Singapore, Singapur, Singapour; Stockholm; Strasbourg, Straßburg, Strasbourg; Stuttgart; Sydney; Tallinn;
Tehran|Teheran, Teheran, Téhéran; Tel Aviv; Toronto; Toulouse; Trier, Trier, Trèves; Tunis; Turin; Tübingen; Vancouver;
Venice, Venedig, Venise; Verona, Verona, Vérone; Vienna, Wien, Vienne; Vilnius; Warsaw, Warschau, Varsovie; Washington;
Weimar; Wiesbaden; Würzburg, Würzburg, Wurtzbourg|Würzburg; Zagreb; Zurich, Zürich, Zurich
"""
# Countries and regions, with the articles that their languages want. First those that all general translators know.
_COUNTRIES = """
Germany, Deutschland, l'Allemagne; France, Frankreich, la France; Italy, Italien, l'Italie; Spain, Spanien, l'Espagne;
China, China, la Chine; Japan, Japan, le Japon; Canada, Kanada, le Canada; Ukraine, die Ukraine, l'Ukraine;
Switzerland, die Schweiz, la Suisse; Turkey, die Türkei, la Turquie;
the USA|United States, die USA|Vereinigten Staaten|Vereinigte Staaten, les États-Unis|USA;
Africa, Afrika, l'Afrique; Albania, Albanien, l'Albanie; Algeria, Algerien, l'Algérie; America, Amerika, l'Amérique;
Argentina, Argentinien, l'Argentine; Asia, Asien, l'Asie; Australia, Australien, l'Australie;
Austria, Österreich, l'Autriche; Bavaria, Bayern, la Bavière; Belgium, Belgien, la Belgique;
Brazil, Brasilien, le Brésil; Bulgaria, Bulgarien, la Bulgarie; Cairo, Kairo, le Caire;
California, Kalifornien, la Californie; Chile, Chile, le Chili; Colombia, Kolumbien, la Colombie;
Croatia, Kroatien, la Croatie; Denmark, Dänemark, le Danemark; Egypt, Ägypten, l'Égypte;
England, England, l'Angleterre; Estonia, Estland, l'Estonie; Ethiopia, Äthiopien, l'Éthiopie; Europe, Europa, l'Europe;
Finland, Finnland, la Finlande; Florida, Florida, la Floride;
Great Britain|Britain, Großbritannien, la Grande-Bretagne; Greece, Griechenland, la Grèce; Havana, Havanna, la Havane;
Hungary, Ungarn, la Hongrie; Iceland, Island, l'Islande; India, Indien, l'Inde; Indonesia, Indonesien, l'Indonésie;
Ireland, Irland, l'Irlande; Kenya, Kenia, le Kenya; Latvia, Lettland, la Lettonie; Lithuania, Litauen, la Lituanie;
Luxembourg, Luxemburg, le Luxembourg; Mexico, Mexiko, le Mexique; Morocco, Marokko, le Maroc;
the Netherlands, die Niederlande|Niederlanden, les Pays-Bas; Nigeria, Nigeria, le Nigeria|Nigéria;
Norway, Norwegen, la Norvège; Pakistan, Pakistan, le Pakistan; Peru, Peru, le Pérou; Poland, Polen, la Pologne;
Portugal, Portugal, le Portugal;
Quebec, Quebec|Québec, le Québec; Romania, Rumänien, la Roumanie; Russia, Russland, la Russie;
Saxony, Sachsen, la Saxe; Scotland, Schottland, l'Écosse; Serbia, Serbien, la Serbie; Sicily, Sizilien, la Sicile;
Slovakia, die Slowakei, la Slovaquie; Slovenia, Slowenien, la Slovénie; South Africa, Südafrika, l'Afrique du Sud;
South Korea, Südkorea, la Corée du Sud; Sweden, Schweden, la Suède; Texas, Texas, le Texas;
Thailand, Thailand, la Thaïlande; Tunisia, Tunesien, la Tunisie; Tuscany, die Toskana, la Toscane;
Vietnam, Vietnam, le Vietnam
"""
_ALSO = {  # what else may stand for a place in an answer
    "USA": "US|U.S.|America|Amerika|Amérique",
    "États-Unis": "US|Amérique",
    "United States": "US|U.S.|America",
    "America": "USA|US|U.S.|United States",
    "England": "UK|Britain|Großbritannien|Grande-Bretagne|Royaume-Uni",
    "Great Britain": "UK|United Kingdom|England|Vereinigtes Königreich|Angleterre|Royaume-Uni",
    "Amerika": "USA",
    "Amérique": "USA|États-Unis",
    "Bremen": "Bremer",
    "Dresden": "Dresdner",
    "München": "Münchner",
    "Niederlande": "Holland",
    "Netherlands": "Holland",
    "Pays-Bas": "Hollande",
    "Türkei": "Truthahn|Pute",
    "Turquie": "dinde",
    "Zürich": "Zürcher",
}
_COMPOUND = {"de": r"|(?:Mittel|Nord|Ost|Süd|West)(?i:{names})"}  # Nordafrika
_BEHIND = {"de": "(?:s|ern?)?"}  # Frankfurter
_FALSE_FRIENDS = {"Island"}  # names that are other words in another language
_PEOPLES = "Bayern|Polen|Sachsen|Schweden|Ungarn"  # in German also people, behind such words:
_OF_PEOPLE = ("alle", "beide", "den", "der", "die", "diese", "drei", "einige", "keine", "manche", "mehrere", "unsere",
              "viele", "vier", "wenige", "zwei")  # fmt: skip
_ARTICLE = re.compile(r"the |die |la |les? |l'")


class _Place(NamedTuple):
    """The names of a place in each language, the usual one first, and the articles that they want."""

    names: dict[str, list[str]]
    articles: dict[str, str]


def _places_of(table):
    """The lines of a table as list of _Place."""
    places = []
    for line in " ".join(table.split()).split(";"):
        names = [name.strip() for name in line.split(",")]
        names = names if len(names) == len(_LANGUAGES) else names * len(_LANGUAGES)
        found = [_ARTICLE.match(name) for name in names]
        bare = [_ARTICLE.sub("", name).split("|") for name in names]
        articles = [article[0] if article else "" for article in found]
        by_language = (dict(zip(_LANGUAGES, column, strict=True)) for column in (bare, articles))
        places.append(_Place(*by_language))
    return places


CITIES, COUNTRIES = _places_of(_CITIES), _places_of(_COUNTRIES)
_KNOWN_CITIES, _KNOWN_COUNTRIES = CITIES[:8], COUNTRIES[:11]  # what models read in place of others


@cache
def place_name(language):
    """The pattern (str) of a place; of languages other than English, German and French what never matches."""
    if language not in _LANGUAGES:
        return "(?!)"
    names = sorted(_by_name(language), key=len, reverse=True)  # "South Africa" before "Africa"
    no_people = "".join(rf"(?<!\b[{word[0].upper()}{word[0]}]{word[1:]}\s)" for word in _OF_PEOPLE)
    before = rf"(?:{no_people}|(?!{_PEOPLES}))" if language == "de" else ""
    return rf"(?<![\w-]){before}(?:{'|'.join(map(re.escape, names))})(?!\w)"


def place_missing(source, answer, source_language, target_language):
    """Whether a place of a source is not in its translation.

    Args:
        source, answer: str.
        source_language, target_language: str, codes of two of English, German and French.
    """
    spelt = _without_accents if target_language == "fr" else str  # people write "Etats-Unis", but not "Munchen"
    flags = re.IGNORECASE if answer in (answer.lower(), answer.upper()) else 0
    compound, behind = _COMPOUND.get(target_language, ""), _BEHIND.get(target_language, "s?")
    for name in set(_pattern(source_language).findall(source)):
        names = [*({name} - _FALSE_FRIENDS), *_by_name(source_language)[name].names[target_language]]
        names += [other for one in names for other in _ALSO.get(one, "").split("|") if other]
        accepted = "|".join(re.escape(spelt(one)) for one in names)
        accepted += compound.format(names=accepted)
        if not re.search(rf"(?<!\w)(?:{accepted}){behind}(?!\w)", spelt(answer), flags):
            return True
    return False


def other_places(name, source_language, target_language):
    """What may be read in place of a place.

    Args:
        name: str, a match of `place_name` of the source language.
        source_language, target_language: str, codes such as "en".

    Returns:
        The name in the target language, and a list of pairs: another place and its translation, with the same articles
        in both languages if there is one.
    """
    place, languages = _by_name(source_language)[name], (source_language, target_language)
    others = [other for other in (_KNOWN_CITIES if place in CITIES else _KNOWN_COUNTRIES) if other is not place]
    alike = [other for other in others if all(other.articles[code] == place.articles[code] for code in languages)]
    pairs = [(other.names[source_language][0], other.names[target_language][0]) for other in alike or others]
    return place.names[target_language][0], pairs


@cache
def _pattern(language):
    return re.compile(place_name(language))


def _without_accents(text):
    """A text without accents: "Etats" for "États"."""
    return "".join(sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign))


@cache
def _by_name(language):
    return {name: place for place in CITIES + COUNTRIES for name in place.names[language]}
