### Names in pictures of signals: as short as they can be.

chart-limit = threshold { $value }
chart-yesterday = yesterday
chart-earlier = { $ago } earlier
chart-before = before: { $value }
chart-pool = all replicas
chart-others = other replicas
chart-alert = alert began
chart-stands-out = { $who } stands out
