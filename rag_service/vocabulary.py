"""Words that the citation check treats in a special way, English and German: tables, no code that decides.

In: nothing. Out: stop words, negations, number words, scales and units, all folded (NFKC, case). Must not: grow rules.
"""

_STOP_EN_TEXT = """
a about each every according also am an and any are as at be been being but by can could did do does document doing for from had
has have having he her hers him his i if in into is it its itself just may me might mine must my of off on onto or our
ours passage per shall she should so some source sources such than that the their theirs them then there these they
this those thus to too up upon us very was we well were what when where which while who whom whose will with would yea
yeah yes you your yours sure okay ok indeed however additionally furthermore moreover overall finally specifically
similarly therefore consequently meanwhile hence actually basically based summary conclusion regarding note
"""
_STOP_DE_TEXT = """
aber als am an auch auf aus bei beim bin bis da dabei dadurch damit dann das dass davon dazu dein dem den der deren
des dessen die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwa
euch euer für gegen hat hatte hatten haben hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem
ins ist ja je jede jedem jeden jeder jedes kann können laut man mein mit nach noch nun nur ob oder quelle quellen sehr
sein seine seinem seinen seiner sich sie sind so sobald sollte sowie um und uns unser unter vom von vor war waren was
weil welche welcher wenn wer werden wie wird wir wo wurde wurden zu zum zur zwischen über jedoch ausserdem zudem
ferner daher deshalb deswegen insgesamt schliesslich somit demnach zusammenfassend
"""
_NEGATIONS_TEXT = """
not no never none neither nor nobody nothing nowhere without cannot lacks lacked lacking nicht kein keine keinem
keinen keiner keines nie niemals niemand nirgends weder ohne nichts لا لم لن ليس ليست غير بدون
"""
_ONES_EN_TEXT = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
"""
_ONES_DE_TEXT = """
null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
achtzehn neunzehn
"""
_TENS_EN_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS_DE_TEXT = "zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig"  # ß is folded to ss
# Groups of names for one unit, the first of which stands for all; "|" divides the groups.
_UNITS_TEXT = """
second seconds sec secs sekunde sekunden | minute minutes min mins minuten | hour hours hr hrs h stunde stunden | day
days tag tage tagen | week weeks woche wochen | month months monat monate monaten | quarter quarters quartal quartale
| year years yr yrs jahr jahre jahren | decade decades jahrzehnt jahrzehnte | century centuries jahrhundert
jahrhunderte | millimeter millimeters millimetre millimetres mm | centimeter centimeters centimetre centimetres
zentimeter cm | meter meters metre metres m | kilometer kilometers kilometre kilometres km | mile miles meile meilen
mi | foot feet ft fuss | inch inches zoll | yard yards yd | milligram milligrams milligramm mg | gram grams gramm g |
kilogram kilograms kilogramm kg | tonne tonnes ton tons tonnen t | pound pounds lb lbs pfund £ | ounce ounces oz unze
unzen | milliliter millilitre ml | liter liters litre litres l | gallon gallons gallone gallonen | hectare hectares
hektar ha | acre acres | % percent prozent pct | ‰ permille promille | dollar dollars usd $ | euro euros eur € | cent
cents | franc francs franken chf | yen jpy ¥ | rupee rupees ₹ | degree degrees grad ° | celsius c | fahrenheit f |
kelvin | byte bytes | kb kilobyte kilobytes | mb megabyte megabytes | gb gigabyte gigabytes | tb terabyte terabytes |
hertz hz | khz | mhz | ghz | watt watts w | kilowatt kilowatts kw | megawatt megawatts mw | kwh | volt volts v |
ampere amps amp | kmh | mph | hp ps | kcal | calorie calories kalorien
"""

STOP_EN = frozenset(_STOP_EN_TEXT.split())
STOP_DE = frozenset(_STOP_DE_TEXT.split())
STOP = STOP_EN | STOP_DE

NEGATIONS = frozenset(_NEGATIONS_TEXT.split())
PARTICLES_CJK = frozenset("的了之")
NEGATIONS_CJK = frozenset("不没沒無无未非勿")

_ONES_EN = _ONES_EN_TEXT.split()
_ONES_DE = _ONES_DE_TEXT.split()
_TENS_DE = {word: 20 + 10 * i for i, word in enumerate(_TENS_DE_TEXT.split())}

TENS = {word: 20 + 10 * i for i, word in enumerate(_TENS_EN_TEXT.split())}
ONES = {word: i for i, word in enumerate(_ONES_EN[:10]) if i}
# "one" and "ein" are articles and pronouns more often than numbers, so they count as none.
NUMBER_WORDS = {
    **{word: i for words in (_ONES_EN, _ONES_DE) for i, word in enumerate(words) if i != 1},
    **TENS,
    **_TENS_DE,
    **{f"{one}und{ten}": value + i for ten, value in _TENS_DE.items() for i, one in enumerate(_ONES_DE[:10]) if i},
}

SCALES = {
    "hundred": 2, "hundert": 2, "thousand": 3, "tausend": 3, "million": 6, "millions": 6, "millionen": 6, "mio": 6,
    "billion": 9, "billions": 9, "bn": 9, "milliarde": 9, "milliarden": 9, "mrd": 9, "trillion": 12, "trillions": 12,
    "billionen": 12,
}  # fmt: skip

UNITS = {word: group.split()[0] for group in _UNITS_TEXT.split("|") for word in group.split()}
