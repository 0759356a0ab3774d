"""What people see and press that is not pushed to them: the fleet page, its buttons, the inspector, the admin's start page."""
