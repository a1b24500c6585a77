### Namen in Bildern von Messwerten: so kurz wie möglich.

chart-limit = Grenze { $value }
chart-yesterday = gestern
chart-earlier = { $ago } früher
chart-before = zuvor: { $value }
chart-pool = alle Replikate
chart-others = übrige Replikate
chart-alert = Beginn des Alarms
chart-stands-out = { $who } fällt auf
