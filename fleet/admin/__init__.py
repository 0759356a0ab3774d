"""Admin of the site and its robots: nothing here saves a robot; forms and buttons call `fleet.actions`."""

from django.contrib import admin

from fleet.admin import places, records, robots, sites, users  # noqa: F401  (each registers its pages)

admin.site.site_header = "Drover"
admin.site.site_title = "Drover"
admin.site.index_title = "Now"
admin.site.site_url = "/fleet/"
admin.site.empty_value_display = "–"
admin.site.enable_nav_sidebar = False  # lists need the width; the top bar has what people open daily
