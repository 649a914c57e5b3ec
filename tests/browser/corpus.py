"""The documents that the page is tested with: short, each with one fact that stands in no other.

In: nothing. Out: `CORPUS`, file names to texts. Must not: hold two documents that could answer the same question.
"""

FIRE = "window.canary = 1"

LEAVE = "Full-time staff have 25 days of annual leave a year."
FLOOD = "The Elbe flood of 1845 reached 9.9 metres in Dresden."
BRIDGE = "The Augustus bridge was rebuilt in yellow sandstone."
ORCHARD = "The harvest of pears weighs 40 tonnes in a good year."
PAYLOAD = f'Payroll runs on <img src=x onerror="{FIRE}"> the 27th <script>{FIRE}</script> of each month.'

HOSTILE_NAME = f"payroll <img src=x onerror='{FIRE}'>.txt"

CORPUS: dict[str, str] = {
    "leave.txt": f"Staff handbook.\n\nWorking time is 38 hours a week.\n\n{LEAVE}\n\nThe ill tell their manager.\n",
    "flood.txt": f"A chronicle of the river.\n\n{FLOOD}\n\nThe water fell after four days.\n",
    "bridge.txt": f"Buildings of the old town.\n\n{BRIDGE}\n\nIt carries trams and people on foot.\n",
    # Characters of two UTF-16 units stand before the fact, so that an offset counted in units would point elsewhere.
    "orchard.txt": f"🍐🌳👩‍🌾 𝒯he orchard 🌍.\n\n🍐 {ORCHARD} 🍐\n\nPears are picked by hand. 👍🏽\n",
    HOSTILE_NAME: f'Payroll.\n\n{PAYLOAD}\n\n<iframe srcdoc="<script>top.canary=1</script>"></iframe>\n'
    f'<svg onload="{FIRE}"></svg>\n',
}
